"""ScienceWorld's tasks, from the package scienceworld."""
