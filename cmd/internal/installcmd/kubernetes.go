package installcmd

import (
	"cmp"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/internal/uri"
)

func newCmdKubernetes(f *factory.Factory, runF factory.Run[*installOptions]) *cobra.Command {
	var o installOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "kubernetes",
		Short: "Print manifests, or a Helm chart, that run an image at each slot, or as a daemon",
		Long: `Print manifests of Kubernetes that run an image at each slot: CronJobs for runs and for catch-up, and a Job
for the schema. With --daemon, print a Deployment with its Service instead of the CronJobs. With --helm, print the Helm
chart of the same objects. The command installs nothing.

Every object and pod is called NAME-prescient, because the application called NAME has a Service, a Deployment and pods
of its own. Every selector also names the component.

The pods read their configuration from a Secret that you create. It contains the configuration file that this command
has read, under the name of the file. If the command has read no file, it contains the URL of the database as
database-url. No other setting of this shell reaches the pods. The Secret has the name of the objects, two pods share a
slot, or each shard has one, and the NetworkPolicy allows connections to the ports that the configuration names. A pod
gets 25 s more than run.grace to stop, at least 45 s. To change this, edit the manifests, or the values of the chart.

` + widthHelp,
		Example: `  kubectl create secret generic ` + install.KubernetesName(f.Name) + ` \
    --from-file=/etc/prescient/prescient.yaml
  prescient install kubernetes --image example.com/` + f.Name + `:1 |
    kubectl apply -f -
  prescient install kubernetes --image example.com/` + f.Name + `:1 \
    --daemon

  prescient install kubernetes --image example.com/` + f.Name + `:1 \
    --helm --write chart
  helm install ` + install.KubernetesName(f.Name) + ` ./chart`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	o.flags(f, c)
	o.writeFlags(c)
	fs := c.Flags()
	fs.StringVar(&o.Image, "image", "", "`IMAGE` whose entrypoint is the binary")
	o.Shards = 1
	cli.CountVar(fs, (*cli.Count)(&o.Shards), "shards", 1,
		"number of shards that the stores are divided into, each with one pod")
	fs.BoolVar(&o.Daemon, "daemon", false, "run daemons instead of a Job for each slot")
	fs.BoolVar(&o.helm, "helm", false, "print the files of a Helm chart")
	_ = c.MarkFlagRequired("image")
	for _, name := range []string{"image", "shards"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return c
}

// replicas is the number of pods that share a slot, unless there are several shards, or of daemons.
const replicas = 2

func printKubernetes(ctx context.Context, f *factory.Factory, o *installOptions) error {
	if f.Chosen() != "" {
		return exit.Usagef("--store %s: pods work on all stores that their configuration lists; "+
			"leave the flag out, or give pods of their own a file with that store alone", f.Chosen())
	}
	s, err := o.fill(ctx, f)
	if err != nil {
		return err
	}
	s.Secret, s.Replicas = install.KubernetesName(s.Name), replicas
	if !s.Daemon && s.Width <= time.Minute {
		if err := adviseDaemon(ctx, f, s.Width); err != nil {
			return err
		}
	}
	s.Ports = portsOut(f)
	if s.Config != "" {
		if f.Config().Database.URL.Reveal() == config.Embedded {
			f.Log().WarnContext(ctx,
				"database.url is embedded:, so each pod would look for a private PostgreSQL of its own: name a server",
				"file", s.Config)
		}
		for _, dir := range writes(f) {
			f.Log().WarnContext(ctx, "a pod cannot write to a directory of the settings, because its root file system is "+
				"read-only: mount a volume there in the manifests, or take out of the configuration file what names it: "+
				"metrics.file, spool.dir, or a destination or a receiver with file:", "directory", dir, "file", s.Config)
		}
		s.Config = filepath.Base(s.Config)
		warnUnseen(ctx, f)
	}
	if o.Shards > 1 && (o.Daemon || !f.Many()) {
		return exit.Usagef("--shards divides the stores of the settings among the pods of a slot: " +
			"it needs such a list, and is not for daemons, which share every store")
	}
	if o.helm {
		files, err := install.Chart(s)
		if err != nil {
			return installError(f, err)
		}
		return deliver(f, o, files)
	}
	file, err := install.Kubernetes(s)
	if err != nil {
		return installError(f, err)
	}
	return deliver(f, o, []install.File{file})
}

// adviseDaemon warns of CronJobs for slots of a minute, which start two pods each minute. It is an
// error for smaller slots, for which there are no CronJobs.
func adviseDaemon(ctx context.Context, f *factory.Factory, width time.Duration) error {
	if width < time.Minute {
		return exit.Usagef("slots of %s: %w: add --daemon", duration.Format(width), install.ErrWidth)
	}
	f.Log().WarnContext(ctx,
		"slots of a minute are thousands of Jobs a day, and each starts late: daemons suit them better, see --daemon")
	return nil
}

// usualPorts are those of the services that a URL may name without a port.
var usualPorts = map[string]string{"http": "80", "https": "443", "kafka": "9092", "nats": "4222", "tls": "4222"}

// portsOut returns the TCP ports that the settings have commands connect to, in order.
func portsOut(f *factory.Factory) (ports []int) {
	cfg := f.Config()
	ports = pg.Ports(cfg.Database.URL.Reveal())
	for _, store := range cfg.Stores {
		ports = append(ports, pg.Ports(store.Database(cfg).URL.Reveal())...)
	}
	for _, job := range cfg.SQLJobs {
		ports = append(ports, pg.Ports(cmp.Or(job.Database, cfg.Database.URL).Reveal())...)
	}
	services := []string{cfg.Run.PingURL.Reveal()}
	for _, to := range cfg.AllDestinations() {
		services = append(services, to.URL.Reveal())
	}
	for _, job := range cfg.HTTPJobs {
		services = append(services, job.URL.Reveal())
	}
	for _, to := range cfg.Receivers {
		services = append(services, receiver.Link(to.URL.Reveal()))
	}
	for _, text := range services {
		ports = append(ports, portsOf(text)...)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// portsOf returns the port of each host of a URL.
func portsOf(text string) (ports []int) {
	service, err := uri.Parse(text)
	if err != nil {
		return nil
	}
	hosts, _ := uri.Hosts(service, usualPorts[service.Scheme])
	for _, host := range hosts {
		_, text, _ := net.SplitHostPort(host)
		if port, err := strconv.Atoi(text); err == nil {
			ports = append(ports, port)
		}
	}
	return ports
}
