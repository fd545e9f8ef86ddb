"""The commands: what each takes. Each module has one command, and imports what it runs when it is called."""
