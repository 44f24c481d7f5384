"""The error matrix: bad inputs, area by area.

To add a case, add a row to the table of its area: what is sent, the code it is refused with, and a word that one of its
lines must hold. Exit code and HTTP status are those of ``outrider/errors.py``; the fixture ``house`` sees to it that
rows, files, processes and ports are afterwards what they were before.
"""
