"""Events as plain text: lines, masking, escaping, observers."""
