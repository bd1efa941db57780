"""askless' strategies in the loops of other libraries, one thin file each."""
