"""What a text in WGSL has in front of its body: pure Python, for the build and at run time."""
