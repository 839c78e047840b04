"""The longer commands, one file each. The command line calls them; scripts can too."""
