#!/bin/sh
echo "back to the version before"
