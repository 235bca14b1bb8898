#!/bin/sh
echo "version 1.4.1 is back"
