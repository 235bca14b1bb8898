#!/bin/sh
echo "version 1.4.2 is on its way to $1"
