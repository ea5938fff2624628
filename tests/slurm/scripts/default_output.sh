#!/bin/bash
echo "in the default file"
