package config_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/config"
)

// A program registers the flags, parses its command line and loads.
func ExampleLoad() {
	fs := pflag.NewFlagSet("prescient run", pflag.ContinueOnError)
	config.Flags(fs)
	config.RunFlags(fs)
	if err := fs.Parse(os.Args[1:]); err != nil {
		slog.Error(err.Error())
		os.Exit(2)
	}
	loaded, err := config.Load(fs)
	for _, warning := range loaded.Warnings {
		slog.Warn(warning)
	}
	if err != nil {
		slog.Error(err.Error())
		os.Exit(2)
	}
	slog.Info("run", "workers", loaded.Config.Run.Workers, "database", loaded.Config.Database.URL)
}

func ExampleRedact() {
	fmt.Fprintln(os.Stdout, config.Redact("postgres://app:s3cret@db/orders?sslmode=require"))
	fmt.Fprintln(os.Stdout, config.Redact("host=db password=s3cret dbname=orders"))
	// Output:
	// postgres://app:***@db/orders?sslmode=require
	// host=db password=*** dbname=orders
}
