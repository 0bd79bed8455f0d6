"""The commands of a repair as functions."""

from envs.functions import Function

FUNCTIONS = (
    Function("ls", "ls {folder}", "the entries of a folder", optional=("folder",)),
    Function("show", "show {file} {lines}", 'a file\'s lines, such as "10-30"', optional=("lines",)),
    Function("search", "search {text}", "where a text stands"),
    Function("replace", "replace {file}: {old} => {new}", "change a text that stands once in a file, on one line"),
    Function("edit", "edit {file} {lines}\n{text}", "put text in the place of lines", optional=("text",)),
    Function("test", "test {target}", "run the tests, a file of them or one by its id", optional=("target",)),
    Function("submit", "submit", "hand the repair in"),
)
