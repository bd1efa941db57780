"""What a run hands out: labels, models, reports."""
