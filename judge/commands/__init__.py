"""Commands, a file each: settings, work, files, printing.

Their functions raise :class:`~judge.errors.JudgeError` for anything that the user can mend, and then leave nothing
behind, except finished work where the command says so.
"""
