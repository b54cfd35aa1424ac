package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
)

func (p *program) fileCommand() *cobra.Command {
	var output string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "file ID [NAME]",
		Short: "List the files of a session, or print one of them",
		Long: `Lists the files that agents and tools created in a session, or prints the bytes of the
file NAME to standard output. NAME is a digest or a name; if several files have the name,
the last one is printed.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return p.listFiles(cmd.Context(), args[0], asJSON)
			}
			return p.writeFile(cmd.Context(), args[0], args[1], output)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "write to `FILE`, which must not exist, instead of standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "without NAME, print one JSON object per file and line")
	return cmd
}

// filesOf returns the file events of a session, in the order of the log.
func (s *past) filesOf(ctx context.Context, until int64) (files []*event.Event, err error) {
	for e, err := range s.until(ctx, until) {
		if err != nil {
			return nil, err
		}
		if _, ok := e.Data.(*event.File); ok {
			files = append(files, e)
		}
	}
	return files, nil
}

func (p *program) listFiles(ctx context.Context, id string, asJSON bool) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	files, err := s.filesOf(ctx, s.Seq)
	if err != nil {
		return err
	}
	for _, e := range files {
		if asJSON {
			render.JSONLines(p.Stdout).Event(e)
			continue
		}
		d := e.Data.(*event.File)
		fmt.Fprintf(p.Stdout, "%d  %s  %s  %s\n", e.Seq, visible.Line(e.Agent), visible.Line(d.String()), d.Digest)
	}
	return nil
}

func (p *program) writeFile(ctx context.Context, id, name, output string) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	files, err := s.filesOf(ctx, s.Seq)
	if err != nil {
		return err
	}
	var found *event.File
	for _, e := range files {
		if d := e.Data.(*event.File); d.Name == name || d.Digest == name {
			found = d
		}
	}
	if found == nil {
		return usagef("session %s has no file %q; %s sessions file %s lists them", visible.Line(id), name, p.name, quoteArg(id))
	}
	if found.URL != "" {
		return usagef("the file %s is not here, but at %s", visible.Line(name), visible.Line(found.URL))
	}
	data, err := s.db.Blob(ctx, s.Key, found.Digest)
	if err != nil {
		return err
	}
	if output == "" {
		_, err = p.Stdout.Write(data)
		return err
	}
	return create(output, data)
}

// create makes a file that does not exist yet.
func create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s exists already", path)
	} else if err != nil {
		return usageError{err}
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// filesFlag adds --files, the folder that files are written to.
func filesFlag(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "files", "", "write the files that agents create to `DIR`, and create it if necessary")
}

// put writes a file of a session to a folder, and returns where it is. What is there
// stays: the file gets a number, unless it is the same.
func put(ctx context.Context, blob func(ctx context.Context, digest string) ([]byte, error), dir string, f *event.File) (string, error) {
	data, err := blob(ctx, f.Digest)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	name := event.FileName(f.Name, "file") // whatever a log says
	ext := filepath.Ext(name)
	for n := 2; ; n++ {
		path := filepath.Join(dir, name)
		err := create(path, data)
		if err == nil || !exists(path) {
			return path, err
		}
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
			return path, nil
		}
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(event.FileName(f.Name, "file"), ext), n, ext)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// made takes in a file that the turn has made: it writes it to the folder of --files, or
// says how to get it.
func (c *conversation) made(ctx context.Context, d *event.File) error {
	switch {
	case d.URL != "": // the line that names it says where it is
	case c.files != "":
		path, err := put(context.WithoutCancel(ctx), c.at.blob, c.files, d)
		if err == nil && !c.json {
			c.p.say("%s is in %s", visible.Line(d.Name), path)
		}
		return err
	case c.db == nil:
		c.p.say("to get %s: begin the chat with --files DIR", visible.Line(d.Name))
	case c.persistent() && !c.json:
		c.p.say("to get %s: %s", visible.Line(d.Name), c.p.commandLine("sessions file", "", quoteArg(c.key.ID), quoteArg(d.Name)))
	}
	return nil
}

// withFiles passes on a log, and appends what is wrong with the bytes of its files.
func withFiles(ctx context.Context, db *database, key session.Key, wrong *[]integrity.Violation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range db.Load(ctx, key, 0) {
			if !yield(e, err) || err != nil {
				return
			}
			d, ok := e.Data.(*event.File)
			if !ok || d.URL != "" {
				continue
			}
			data, err := db.Blob(ctx, key, d.Digest)
			if err == nil && int64(len(data)) != d.Size {
				err = fmt.Errorf("it has %d bytes and not %d", len(data), d.Size)
			}
			if err != nil {
				*wrong = append(*wrong, integrity.Violation{Seq: e.Seq, Message: fmt.Sprintf("the file %s: %v", d.Name, err)})
			}
		}
	}
}
