package session

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
)

func fileCommand(f *factory.Factory) *cobra.Command {
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
				return listFiles(cmd.Context(), f, args[0], asJSON)
			}
			return writeFile(cmd.Context(), f, args[0], args[1], output)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "write to `FILE`, which must not exist, instead of standard output")
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "without NAME, print one JSON object per file and line")
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

func listFiles(ctx context.Context, f *factory.Factory, id string, asJSON bool) error {
	s, err := open(ctx, f, id)
	if err != nil {
		return err
	}
	files, err := s.filesOf(ctx, s.Seq)
	if err != nil {
		return err
	}
	for _, e := range files {
		if asJSON {
			render.JSONLines(f.Stdout).Event(e)
			continue
		}
		d := e.Data.(*event.File)
		fmt.Fprintf(f.Stdout, "%d  %s  %s  %s\n", e.Seq, visible.Line(e.Agent), visible.Line(d.String()), d.Digest)
	}
	return nil
}

func writeFile(ctx context.Context, f *factory.Factory, id, name, output string) error {
	s, err := open(ctx, f, id)
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
		return factory.Usagef("session %s has no file %q; %s sessions file %s lists them", visible.Line(id), name, f.Name, factory.QuoteArg(id))
	}
	if found.URL != "" {
		return factory.Usagef("the file %s is not here, but at %s", visible.Line(name), visible.Line(found.URL))
	}
	data, err := s.db.Blob(ctx, s.Key, found.Digest)
	if err != nil {
		return err
	}
	if output == "" {
		_, err = f.Stdout.Write(data)
		return err
	}
	return factory.Create(output, data)
}

// withFiles passes on a log, and appends what is wrong with the bytes of its files.
func withFiles(ctx context.Context, db *factory.Database, key session.Key, wrong *[]integrity.Violation) iter.Seq2[*event.Event, error] {
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
