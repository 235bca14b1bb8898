#!/bin/sh
touch "fixed-$1"
echo "fixed $1"
