package main
import (
 _ "github.com/riverqueue/river"
 _ "github.com/riverqueue/river/riverdriver/riverpgxv5"
 _ "github.com/riverqueue/river/rivermigrate"
 _ "github.com/vgarvardt/gue/v5/adapter/pgxv5"
 _ "github.com/vgarvardt/gue/v5"
)
