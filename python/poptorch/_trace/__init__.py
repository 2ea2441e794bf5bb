"""How the forward pass of a module is recorded: once, on meta tensors, above autograd."""
