"""One kit for every report: a page that needs nothing from elsewhere, tables, charts, and how numbers are written."""
