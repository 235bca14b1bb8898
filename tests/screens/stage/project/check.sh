#!/bin/sh
# Fails until it is fixed.
[ -e "fixed-$1" ] && { echo "$1: no problems"; exit 0; }
echo "$1: 3 problems"
exit 1
