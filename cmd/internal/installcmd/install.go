// Package installcmd has the commands that print or install what starts the binary: install
// crontab, systemd, kubernetes, man and completion. Package install makes the texts.
package installcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/slots/grid"
)

// NewCmdInstall returns the command install, with those below it.
func NewCmdInstall(f *factory.Factory) *cobra.Command {
	return cli.Group("install",
		"Print or install what starts this binary: cron, systemd, Kubernetes; manual pages and completion",
		newCmdCrontab(f, runCrontab), newCmdSystemd(f, printSystemd), newCmdKubernetes(f, printKubernetes),
		newCmdMan(f), newCmdCompletion(f))
}

const widthHelp = `The width of the slots comes from the database, or from --width if the database cannot be reached.
The first line says which.`

type installOptions struct {
	install.Setup
	timezone string
	write    string
	helm     bool
}

// flags adds the flags that all kinds of setup have.
func (o *installOptions) flags(f *factory.Factory, c *cobra.Command) {
	o.Name, o.Program = f.Name, f.Name
	duration.Var(c.Flags(), &o.Width, "width", 0, "distance between two slots, if the database cannot be reached")
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
	c.Flags().StringVar(&o.write, "write", "",
		"write the files into `DIRECTORY` instead of printing them; fail if one exists and is different")
	_ = c.MarkFlagDirname("write")
}

// fill completes the setup with what the settings and the database know.
func (o *installOptions) fill(ctx context.Context, f *factory.Factory) (install.Setup, error) {
	s := o.Setup
	s.Config, s.Store, s.Grace = f.Loaded().File, f.Chosen(), f.Config().Run.Grace
	var err error
	s.Width, s.WidthFrom, err = knownWidth(ctx, f, s.Width)
	return s, err
}

// fillMachine completes the setup of a machine: with this binary, and a configuration file, since
// what starts the commands there knows nothing of this shell.
func (o *installOptions) fillMachine(ctx context.Context, f *factory.Factory) (install.Setup, error) {
	s, err := o.machine(f)
	if err != nil {
		return s, err
	}
	if f.Loaded().File == "" {
		f.Log().WarnContext(ctx, "no configuration file was read: write one where it is named, with a database.url", "file",
			s.Config)
	}
	s.Width, s.WidthFrom, err = knownWidth(ctx, f, s.Width)
	if err == nil {
		warnUnseen(ctx, f)
		warnPrivate(ctx, f)
	}
	return s, err
}

// machine completes the setup of a machine but for the width, which the database knows.
func (o *installOptions) machine(f *factory.Factory) (s install.Setup, err error) {
	s = o.Setup
	s.Config, s.Store, s.Receiver = f.Loaded().File, f.Chosen(), f.Config().Alerts.Receiver
	s.Grace = f.Config().Run.Grace
	if s.Binary == "" {
		if s.Binary, err = os.Executable(); err != nil {
			return s, fmt.Errorf("find this binary: %w; give it by --binary", err)
		}
	}
	if !filepath.IsAbs(s.Binary) {
		return s, exit.Usagef("--binary %s: want a path from the root, such as /usr/local/bin/%s", s.Binary, f.Name)
	}
	if s.Config == "" {
		s.Config = factory.UsualConfig
	}
	return s, nil
}

// knownWidth is the width of the slots and who says so: the database, or else given or the
// settings. Of several stores it is the least: in a store with wider slots, most runs find nothing
// new.
func knownWidth(
	ctx context.Context, f *factory.Factory, given time.Duration,
) (width time.Duration, from string, err error) {
	if _, err := grid.New(cmp.Or(given, grid.DefaultWidth)); err != nil {
		return 0, "", exit.Usagef("--width: %w", err)
	}
	change := f.Self()
	many := f.Many()
	if !many && f.Config().Database.URL.Reveal() == "" {
		return givenWidth(f, given, exit.Usagef("database.url is not set"))
	}
	width, from, err = database.Width(ctx, f)
	if many {
		change += " --" + from // store NAME
	}
	if err == nil && given != 0 && given != width {
		err = exit.Usagef("--width is %s, but %s has slots of %s: leave the flag out, or change the database with: "+
			"%s slots set-width %s", duration.Format(given), from, duration.Format(width), change, duration.Format(given))
	}
	if _, usage := errors.AsType[*exit.Error](err); err == nil || usage {
		return width, from, err
	}
	why := err
	width, from, err = givenWidth(f, given, why)
	if err == nil {
		f.Log().WarnContext(ctx, "the database was not asked for the width of its slots", "error", why)
	}
	return width, from, err
}

// givenWidth returns the width that a flag or a setting says. why says what is wrong with the
// database.
func givenWidth(f *factory.Factory, given time.Duration, why error) (width time.Duration, from string, err error) {
	width, from = given, "--width"
	if given == 0 {
		width, from = f.Config().Slots.Width, "slots.width, "+f.Origin("slots.width")
	}
	if width == 0 {
		return 0, "", fmt.Errorf("the width of the slots is not known: %w; set it right, or give --width", why)
	}
	return width, from, nil
}

// warnUnseen warns of settings that only this command line and this shell have.
func warnUnseen(ctx context.Context, f *factory.Factory) {
	for _, e := range f.Loaded().Entries {
		if strings.HasPrefix(e.Origin, "environment ") || strings.HasPrefix(e.Origin, "flag ") {
			f.Log().WarnContext(ctx, "a setting is not in the configuration file, so what is installed does not see it", "key",
				e.Key, "origin", e.Origin)
		}
	}
}

// warnPrivate warns if what is installed on this machine would use another private PostgreSQL than
// this shell.
func warnPrivate(ctx context.Context, f *factory.Factory) {
	told := !strings.HasPrefix(f.Origin("database.url"), "file ") // by warnUnseen
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" && database.Private(f) && !told {
		f.Log().WarnContext(ctx, "the private PostgreSQL of this shell is where XDG_DATA_HOME says, and what is installed "+
			"looks elsewhere: put the URL of the private PostgreSQL into database.url", "xdg_data_home", dir,
			"do", f.Self()+" dev-db url")
	}
}

// installError turns an error of package install into one of usage.
func installError(f *factory.Factory, err error) error {
	if errors.Is(err, install.ErrWidth) {
		return exit.Usagef("%w: %s daemon. Or give them another width: %[2]s slots set-width 1m", err, f.Self())
	}
	if err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return nil
}

// deliver writes the files, or prints them.
func deliver(f *factory.Factory, o *installOptions, files []install.File) error {
	if o.write != "" {
		for i, file := range files {
			files[i].Path = filepath.Join(o.write, file.Path)
		}
		if err := writeNew(files); err != nil {
			return err
		}
	}
	return f.Print(files, func() error {
		for i, file := range files {
			text := strings.TrimSuffix(file.Text, "\n")
			switch {
			case o.write != "":
				text = "wrote " + file.Path
			case len(files) > 1:
				text = strings.Repeat("\n", min(i, 1)) + "# " + file.Path + "\n" + text
			}
			if err := f.Lines(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeNew writes files. It writes none of them if one exists already and is different.
func writeNew(files []install.File) error {
	same := map[string]bool{}
	for _, file := range files {
		old, err := os.ReadFile(file.Path)
		switch {
		case err == nil && string(old) != file.Text:
			return fmt.Errorf("%s exists and is different: it may have been edited, so move it away first", file.Path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("read what is there: %w", err)
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

// writeWhole writes a file whole or not at all, for everyone to read. Until then it has a name with
// a dot, which cron ignores.
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
