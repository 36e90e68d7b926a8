"""``python -m slicing``: the command line (``slicing.command_line.command``)."""

from slicing.command_line.command import main

raise SystemExit(main())
