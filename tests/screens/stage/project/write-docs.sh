#!/bin/sh
# A first session that is not enough, then one that is.
if [ -z "$LL_CONTINUATION" ]; then
  echo 'CONTEXT_HANDOFF: Chapters 1 to 3 are written. Remaining: chapter 4 (src/api/models.py) and the index.'
  exit 0
fi
touch fixed-docs
echo 'chapter 4 and the index are written'
