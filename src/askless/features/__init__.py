"""What a head is trained on: images and texts, embedded once by a backbone that is never trained."""
