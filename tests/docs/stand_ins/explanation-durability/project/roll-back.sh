#!/bin/sh
echo "back to the previous version"
