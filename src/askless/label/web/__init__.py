"""The labelling page: a server for this computer only, and one page of plain HTML, CSS and JavaScript."""
