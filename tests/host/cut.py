# SPDX-License-Identifier: GPL-2.0
"""Functions and types of the kernel modules as they stand in their files, for programs of user
space that include them beside their own models of what those use."""

import re


class CutError(Exception):
    """A file does not have what is to be cut out of it."""


def function(source, name):
    """The definition of a function in the text of a file in the kernel's style."""
    # From the line that begins in the first column to the brace that ends it there.
    found = re.findall(rf"^(?:[a-z][^;{{}}()]*[ \n*]){name}\([^;{{}}]*\n{{\n.*?^}}\n", source,
                       re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise CutError(f"{name}(): {len(found)} definitions")
    return found[0]


def declaration(definition):
    """Of what function() has returned."""
    return definition.partition("\n{\n")[0] + ";\n"


def a_type(source, name):
    """The definition of "struct NAME" or "enum NAME"."""
    found = re.findall(rf"^{name} {{\n.*?^}}[^;\n]*;\n", source, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise CutError(f"{name}: {len(found)} definitions")
    return found[0]


def types(top, wanted):
    """Those of @wanted, {file: [name, ...]}."""
    return "\n".join(a_type((top / path).read_text(encoding="utf-8"), name)
                     for path, names in wanted.items() for name in names)


def functions(top, wanted, changed=None):
    """Those of @wanted, {file: [name, ...]}, declared and then defined. @changed: {file: text}
    where it is not to be what the file has."""
    found = []
    for path, names in wanted.items():
        source = (changed or {}).get(path) or (top / path).read_text(encoding="utf-8")
        found += [function(source, name) for name in names]
    return "\n".join([declaration(text) for text in found] + found)
