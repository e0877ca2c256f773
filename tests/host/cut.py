# SPDX-License-Identifier: GPL-2.0
"""Cuts functions and types of the kernel modules out of their files. Programs in user space include
them, together with models of what these functions call."""

import re


class CutError(Exception):
    """A file does not have the wanted function or type exactly once."""


def function(source, name):
    """The definition of a function in the text of a file in the kernel's style."""
    # From a line that begins in the first column to the closing brace in the first column.
    found = re.findall(rf"^(?:(?:[a-z][^;{{}}()]*[ \n*]){name}\(|(?:static )?SMQ_END_IO\({name},)"
                       r"[^;{}]*\n{\n.*?^}\n", source, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise CutError(f"{name}(): {len(found)} definitions")
    return found[0]


def declaration(definition):
    """The declaration for a definition that function() has returned."""
    return definition.partition("\n{\n")[0] + ";\n"


def a_type(source, name):
    """The definition of "struct NAME" or "enum NAME"."""
    found = re.findall(rf"^{name} {{\n.*?^}}[^;\n]*;\n", source, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise CutError(f"{name}: {len(found)} definitions")
    return found[0]


def types(top, wanted):
    """The definitions of types. @wanted: {file: [name, ...]}."""
    return "\n".join(a_type((top / path).read_text(encoding="utf-8"), name)
                     for path, names in wanted.items() for name in names)


def functions(top, wanted, changed=None):
    """All declarations, then all definitions, of functions. @wanted: {file: [name, ...]}. @changed:
    {file: text}: texts that replace those of the files."""
    found = []
    for path, names in wanted.items():
        source = (changed or {}).get(path) or (top / path).read_text(encoding="utf-8")
        found += [function(source, name) for name in names]
    return "\n".join([declaration(text) for text in found] + found)
