package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/install"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// usualConfig is the configuration file of commands that are started with no environment.
const usualConfig = "/etc/prescient/prescient.yaml"

func newInstall(a *App) *cobra.Command {
	return cli.Group("install", "Print or install what starts this binary: cron, systemd, Kubernetes; manual pages and completion",
		newCrontab(a), newSystemd(a), newKubernetes(a), newMan(a), newCompletion(a))
}

const widthHelp = `The width of the slots is that of the database; --width, where that cannot be reached. The first line says which.`

type installOptions struct {
	install.Setup
	timezone string
	write    string
	helm     bool
	ports    []int
}

// flags adds the flags that all kinds of setup have.
func (o *installOptions) flags(a *App, c *cobra.Command) {
	o.Name, o.Program = a.Name, a.Name
	duration.Var(c.Flags(), &o.Width, "width", 0, "distance between two slots, where the database cannot be asked")
	_ = c.RegisterFlagCompletionFunc("width", cobra.NoFileCompletions)
}

// binaryFlag adds the flag of a setup that runs a binary on this machine.
func (o *installOptions) binaryFlag(c *cobra.Command) {
	c.Flags().StringVar(&o.Binary, "binary", "", "`PATH` of the binary; default: this one")
}

// writeFlags adds the flags of a setup that is several files.
func (o *installOptions) writeFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Name, "name", o.Name, "`NAME` of what is installed")
	_ = c.RegisterFlagCompletionFunc("name", cobra.NoFileCompletions)
	c.Flags().StringVar(&o.write, "write", "", "write the files into `DIRECTORY`, where none is different, instead of printing them")
	_ = c.MarkFlagDirname("write")
}

// fill completes the setup with what the settings and the database know.
func (o *installOptions) fill(ctx context.Context, a *App) (install.Setup, error) {
	s := o.Setup
	s.Config, s.Store = a.config.File, a.scope.Chosen
	var err error
	s.Width, s.WidthFrom, err = a.knownWidth(ctx, s.Width)
	return s, err
}

// fillMachine completes the setup of a machine: with this binary, and a configuration file, since what starts the
// commands there knows nothing of this shell.
func (o *installOptions) fillMachine(ctx context.Context, a *App) (install.Setup, error) {
	s, err := o.machine(a)
	if err != nil {
		return s, err
	}
	if a.config.File == "" {
		a.log.WarnContext(ctx, "no configuration file was read: write one where it is named, with a database.url", "file", s.Config)
	}
	s.Width, s.WidthFrom, err = a.knownWidth(ctx, s.Width)
	if err == nil {
		a.warnUnseen(ctx)
	}
	return s, err
}

// machine completes the setup of a machine but for the width, which the database knows.
func (o *installOptions) machine(a *App) (s install.Setup, err error) {
	s = o.Setup
	s.Config, s.Store = a.config.File, a.scope.Chosen
	if s.Binary == "" {
		if s.Binary, err = os.Executable(); err != nil {
			return s, fmt.Errorf("find this binary: %w; give it by --binary", err)
		}
	}
	if !filepath.IsAbs(s.Binary) {
		return s, usagef("--binary %s: want a path from the root, such as /usr/local/bin/%s", s.Binary, a.Name)
	}
	if s.Config == "" {
		s.Config = usualConfig
	}
	return s, nil
}

// knownWidth is the width of the slots and who says so: the database, or else given or the settings. Of several stores it is the
// least: where others have wider slots, most runs find nothing new there.
func (a *App) knownWidth(ctx context.Context, given time.Duration) (width time.Duration, from string, err error) {
	if _, err := grid.New(cmp.Or(given, grid.DefaultWidth)); err != nil {
		return 0, "", usagef("--width: %w", err)
	}
	change := a.self()
	if a.scope.Many {
		width, from, err = a.leastWidth(ctx)
		change += " --" + from // store NAME
	} else if a.Config().Database.URL.Reveal() == "" {
		return a.givenWidth(given, usagef("database.url is not set"))
	} else {
		width, from, err = a.databaseWidth(ctx)
	}
	if err == nil && given != 0 && given != width {
		err = usagef("--width is %s, but %s has slots of %s: leave the flag out, or change the database with: %s slots set-width %s",
			duration.Format(given), from, duration.Format(width), change, duration.Format(given))
	}
	if _, usage := errors.AsType[*ExitError](err); err == nil || usage {
		return width, from, err
	}
	why := err
	width, from, err = a.givenWidth(given, why)
	if err == nil {
		a.log.WarnContext(ctx, "the database was not asked for the width of its slots", "error", why)
	}
	return width, from, err
}

// databaseWidth is what the database says.
func (a *App) databaseWidth(ctx context.Context) (width time.Duration, from string, err error) {
	err = a.withDB(ctx, func(_ *sqlx.DB, setting pgsql.Setting) error {
		view, err := a.newDatabaseView(setting)
		width, from = setting.Grid.Width(), "the database "+strings.Map(plain.Printable, view.String())
		return err
	})
	return width, from, err
}

// leastWidth is that of the stores that can be asked, says the first of the settings that has it. Where none can the error says why.
func (a *App) leastWidth(ctx context.Context) (width time.Duration, from string, err error) {
	var mu sync.Mutex
	widths := map[string]time.Duration{}
	parts, err := a.visitAll(ctx, func(ctx context.Context, a *App) error {
		w, _, err := a.databaseWidth(ctx)
		mu.Lock()
		defer mu.Unlock()
		widths[a.scope.Store] = w
		return err
	})
	for _, p := range parts {
		if w := widths[p.store]; w > 0 && (width == 0 || w < width) {
			width, from = w, "store "+p.store
		}
		if p.what != "" {
			err = errors.Join(err, fmt.Errorf("store %s: %s", p.store, p.what))
		}
	}
	if width > 0 && err != nil {
		a.log.WarnContext(ctx, "not every store was asked for the width of its slots", "error", err)
		err = nil
	}
	return width, from, err
}

// givenWidth is the width that a flag or a setting says. why is what is wrong with the database.
func (a *App) givenWidth(given time.Duration, why error) (width time.Duration, from string, err error) {
	width, from = given, "--width"
	if given == 0 {
		width, from = a.Config().Slots.Width, "slots.width, "+a.origin("slots.width")
	}
	if width == 0 {
		return 0, "", fmt.Errorf("the width of the slots is not known: %w; set it right, or give --width", why)
	}
	return width, from, nil
}

// warnUnseen warns of settings that only this command line and this shell have.
func (a *App) warnUnseen(ctx context.Context) {
	for _, e := range a.config.Entries {
		if strings.HasPrefix(e.Origin, "environment ") || strings.HasPrefix(e.Origin, "flag ") {
			a.log.WarnContext(ctx, "a setting is not in the configuration file, so what is installed does not see it", "key", e.Key, "origin", e.Origin)
		}
	}
}

// installError turns an error of package install into one of usage.
func (a *App) installError(err error) error {
	if errors.Is(err, install.ErrWidth) {
		return usagef("%w: %s daemon", err, a.self())
	}
	if err != nil {
		return &ExitError{Code: Usage, Err: err}
	}
	return nil
}

// deliver writes the files, or prints them.
func (a *App) deliver(o *installOptions, files []install.File) error {
	if o.write != "" {
		for i, file := range files {
			files[i].Path = filepath.Join(o.write, file.Path)
		}
		if err := writeNew(files); err != nil {
			return err
		}
	}
	return a.print(files, func() error {
		for i, file := range files {
			text := strings.TrimSuffix(file.Text, "\n")
			switch {
			case o.write != "":
				text = "wrote " + file.Path
			case len(files) > 1:
				text = strings.Repeat("\n", min(i, 1)) + "# " + file.Path + "\n" + text
			}
			if err := a.lines(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeNew writes files, but none of them where one is there already and is different.
func writeNew(files []install.File) error {
	same := map[string]bool{}
	for _, file := range files {
		old, err := os.ReadFile(file.Path)
		switch {
		case err == nil && string(old) != file.Text:
			return fmt.Errorf("%s exists and is different: it may have been edited, so move it away first", file.Path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look at what is there: %w", err)
		}
		same[file.Path] = err == nil
	}
	for _, file := range files {
		if same[file.Path] {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file.Path), 0o755); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		if err := writeWhole(file); err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
	}
	return nil
}

// writeWhole writes a file whole or not at all, for everyone to read. Until then it has a name with a dot, which cron
// ignores.
func writeWhole(file install.File) error {
	temp, err := os.CreateTemp(filepath.Dir(file.Path), "."+filepath.Base(file.Path)+".*")
	if err != nil {
		return err
	}
	_, err = temp.WriteString(file.Text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
