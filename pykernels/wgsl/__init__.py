"""What a text in WGSL has in front of its body: pure Python, for the build and at run time; what
rows of operations say; and the installed texts."""
