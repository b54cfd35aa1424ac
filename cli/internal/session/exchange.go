package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/integrity"
)

func exportCommand(f *factory.Factory) *cobra.Command {
	var until atFlag
	var format, files string
	cmd := factory.Command("export ID", func(cmd *cobra.Command, args []string) error {
		return exportSession(cmd.Context(), f, args[0], until, format, files)
	})
	until.add(cmd, "export up to position `SEQ` (default: the end)")
	cmd.Flags().StringVarP(&format, "format", "f", "jsonl", "export in this `FORMAT`: jsonl, md, html, openai or case")
	factory.FolderFlag(cmd.Flags(), &files, "files", "also write the session's files to `DIR`")
	return cmd
}

func exportSession(ctx context.Context, f *factory.Factory, id string, until atFlag, format, files string) error {
	if err := factory.OneOf("--format", format, "jsonl", "md", "html", "openai", "case"); err != nil {
		return err
	}
	s, at, err := openAt(ctx, f, id, until)
	if err != nil {
		return err
	}
	if files != "" {
		made, err := s.filesOf(ctx, at)
		if err != nil {
			return err
		}
		for _, e := range made {
			d := e.Data.(*event.File)
			if d.URL != "" {
				continue
			}
			if _, err := factory.Put(ctx, factory.StoredSession{DB: s.db, Key: s.Key}.FileBytes, files, d); err != nil {
				return err
			}
		}
	}
	return sessionform.Export(f.Stdout, format, factory.ShownID(s.Key), s.Seq, func() iter.Seq2[*event.Event, error] { return s.until(ctx, at) })
}

func importCommand(f *factory.Factory) *cobra.Command {
	var name, to string
	cmd := factory.Command("import FILE|-", func(cmd *cobra.Command, args []string) error {
		return importMessages(cmd.Context(), f, args[0], name, to)
	})
	cmd.Flags().StringVar(&name, "agent", "", "attribute the assistant's messages to the agent `NAME`, the root of your tree")
	cmd.Flags().StringVar(&to, "to", "", "name the new session `ID` (default: random)")
	return cmd
}

func importMessages(ctx context.Context, f *factory.Factory, file, speaker, id string) error {
	if speaker == "" {
		return factory.Usagef("--agent is missing: name the agent that said what the assistant says, which is the root of your tree")
	}
	if err := agent.CheckName(speaker); err != nil {
		return factory.Usagef("--agent: %w", err)
	}
	to, err := factory.SessionKey(id)
	if err != nil {
		return err
	}
	name := file
	if name == "-" {
		name = "standard input"
	}
	data, err := f.Read("FILE", file, factory.MaxFile)
	if err != nil {
		return err
	}
	messages, system, err := chatform.Read(data)
	if err != nil {
		return factory.Usagef("%s: %w", name, err)
	}
	if f.Place.DB == factory.MemoryDB {
		return factory.Usagef("--db %s stores nothing that could be continued: give a file", factory.MemoryDB)
	}
	db, err := f.OpenDB(ctx, true)
	if err != nil {
		return err
	}
	sessions, err := checkpoint.New(db.Store)
	if err != nil {
		return err
	}
	err = sessions.Import(ctx, to, speaker, messages)
	switch {
	case errors.Is(err, agent.ErrConflict):
		return factory.Usagef("session %q exists already: give another id with --to", to.ID)
	case errors.Is(err, agent.ErrBadInput) && system > 0:
		return factory.Usagef("%s, without %s: %w", name, render.Count(system, "system message"), err)
	case errors.Is(err, agent.ErrBadInput):
		return factory.Usagef("%s: %w", name, err)
	case err != nil:
		return err
	}
	news := "has " + render.Count(len(messages), "message")
	if system > 0 {
		news += fmt.Sprintf("; %s left out, because agents have instructions of their own", render.Count(system, "system message"))
	}
	return begun(ctx, f, db, to, news)
}

func fileCommand(f *factory.Factory) *cobra.Command {
	var output string
	cmd := factory.Command("file ID [NAME]", func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return listFiles(cmd.Context(), f, args[0])
		}
		return writeFile(cmd.Context(), f, args[0], args[1], output)
	})
	cmd.Flags().StringVar(&output, "output", "", "write to `FILE`, which must not exist, instead of standard output")
	f.JSONFlag(cmd.Flags(), "without NAME, print one JSON object per file and line")
	return cmd
}

// filesOf returns the file events of a session in order.
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

func listFiles(ctx context.Context, f *factory.Factory, id string) error {
	s, err := open(ctx, f, id)
	if err != nil {
		return err
	}
	files, err := s.filesOf(ctx, s.Seq)
	if err != nil {
		return err
	}
	for _, e := range files {
		if f.JSON {
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

// withFiles yields a log, and appends the violations of the bytes of its files.
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
