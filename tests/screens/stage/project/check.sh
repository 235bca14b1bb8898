#!/bin/sh
# Wrong until it was mended.
[ -e "mended-$1" ] && { echo "$1: nothing to say"; exit 0; }
echo "$1: 3 problems"
exit 1
