"""How a program that ``patcher run`` starts, and every Python process that it starts in turn, gets its patches.

``patcher run`` replaces itself by the program, with the folder ``first_on_path`` in front of ``PYTHONPATH``. Python
imports ``sitecustomize`` from there before anything of the program runs. That module applies the patches and makes way
for the user's own ``sitecustomize``; the program is then run by Python itself, with no frame of ours on its stack.
"""
