// Nothing: only here so that the precompiled test headers belong to a target.
