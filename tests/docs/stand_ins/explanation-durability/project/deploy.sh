#!/bin/sh
sleep 2
echo deployed
