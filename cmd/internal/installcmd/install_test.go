package installcmd

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
)

func newFactory() *factory.Factory {
	return factory.New(factory.Config{Name: "shop", Out: io.Discard, Err: io.Discard})
}

// execute runs a command line without a word on the streams of the test.
func execute(c *cobra.Command, args string) error {
	c.SetArgs(strings.Fields(args))
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.Execute()
}

func TestCrontabRefusesFlagsThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	for args, problem := range map[string]string{
		"":                                     "",
		"--apply":                              "",
		"--remove":                             "",
		"--user shop --write /etc/cron.d/shop": "",
		"--write /etc/cron.d/shop":             "give --user",
		"--user shop --write /etc/cron.d/a.b":  "cron ignores a file",
		"--apply --remove":                     "none of the others can be",
		"--apply --user shop":                  "none of the others can be",
		"--remove --write /etc/cron.d/shop":    "none of the others can be",
		"--apply shop":                         `unexpected argument "shop"`,
	} {
		var ran bool
		run := func(context.Context, *factory.Factory, *crontabOptions) error { ran = true; return nil }
		err := execute(newCmdCrontab(newFactory(), run), args)
		if problem == "" && (err != nil || !ran) {
			t.Errorf("%s: %v", args, err)
		}
		if problem != "" && (err == nil || !strings.Contains(err.Error(), problem) || ran) {
			t.Errorf("%s: error %v, want %s", args, err, problem)
		}
	}
}

func TestTheZoneOfCronIsANameOfTheIANADatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Berlin", "UTC", "Etc/UTC"} {
		if zone, err := cronZone(name); err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{
		"/usr/share/zoneinfo/Europe/Berlin", "./Europe/Berlin", "Europe//Berlin", "posix/Europe/Berlin", "localtime", "Local",
		"Berlin",
	} {
		zone, err := cronZone(name)
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "--timezone") ||
			!strings.Contains(err.Error(), "Europe/Berlin") && !strings.Contains(err.Error(), "leave out") {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
}

func TestKubernetesReadsItsCommandLine(t *testing.T) {
	t.Parallel()
	var got *installOptions
	run := func(_ context.Context, _ *factory.Factory, o *installOptions) error { got = o; return nil }
	if err := execute(newCmdKubernetes(newFactory(), run), "--daemon"); err == nil || got != nil {
		t.Errorf("without --image: %v", err)
	}
	if err := execute(newCmdKubernetes(newFactory(), run), "--image example.com/shop:1 --shards 3 --helm"); err != nil {
		t.Fatal(err)
	}
	if got.Name != "shop" || got.Program != "shop" || got.Shards != 3 || !got.helm || got.Daemon {
		t.Errorf("%+v", got)
	}
}

func TestSystemdReadsItsCommandLine(t *testing.T) {
	t.Parallel()
	var got *installOptions
	run := func(_ context.Context, _ *factory.Factory, o *installOptions) error { got = o; return nil }
	if err := execute(newCmdSystemd(newFactory(), run), "--daemon --binary /opt/shop --name orders --write units"); err != nil {
		t.Fatal(err)
	}
	if !got.Daemon || got.Binary != "/opt/shop" || got.Name != "orders" || got.Program != "shop" || got.write != "units" {
		t.Errorf("%+v", got)
	}
}
