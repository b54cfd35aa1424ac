// Command routing asks a real model a fixed list of things, through a tree of seven
// agents, and says how often it handed the conversation to the right one. The model is
// that of the OPENAI_* variables; docs/routing.md says how to get one and how to read
// the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/agentarbor/arbor/llm/openai"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "routing:", err)
		os.Exit(1)
	}
}

// flags are what the command line says.
type flags struct {
	half          half
	n             int
	conversations int
	variants      []variant
	maxTokens     int
	out           string
	read          string
	check         bool
}

func parse(args []string, stderr io.Writer) (flags, error) {
	var f flags
	var messages, names string
	set := flag.NewFlagSet("routing", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&messages, "messages", string(tune), "which half to ask: tune, held or all")
	set.IntVar(&f.n, "n", -1, "how many messages of it, from the first; -1 means all")
	set.IntVar(&f.conversations, "conversations", 0, "how many conversations of it, from the first; -1 means all")
	set.StringVar(&names, "variant", "today", "what the model is shown, several separated by commas, or all")
	set.IntVar(&f.maxTokens, "max-tokens", 96, "the longest answer; only who gives it is looked at")
	set.StringVar(&f.out, "out", "", "a new file for the results, one JSON object a line, with all answers")
	set.StringVar(&f.read, "read", "", "asks nothing, but prints the table of these files, separated by commas")
	set.BoolVar(&f.check, "check", false, "fail on errors, on turns without words and on calls shown to the user")
	set.Usage = func() {
		fmt.Fprintln(stderr, "Usage: routing [flags]")
		set.PrintDefaults()
		fmt.Fprintln(stderr, "Variants:")
		for _, v := range variants() {
			fmt.Fprintf(stderr, "  %-16s %s\n", v.name, v.about)
		}
	}
	err := set.Parse(args)
	if err != nil {
		return f, err
	}
	f.half = half(messages)
	switch {
	case set.NArg() > 0:
		err = fmt.Errorf("%q is no flag", set.Arg(0))
	case f.half != tune && f.half != held && f.half != all:
		err = fmt.Errorf("-messages can be tune, held or all, not %q", messages)
	case f.maxTokens <= 0:
		err = errors.New("-max-tokens must be above zero")
	default:
		f.variants, err = choose(names)
	}
	return f, err
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	var records []record
	if f.read != "" {
		if records, err = readAll(strings.Split(f.read, ",")); err != nil {
			return err
		}
	} else if records, err = ask(ctx, f, getenv, stderr); err != nil && len(records) == 0 {
		return err
	}
	fmt.Fprintln(stdout, table(records))
	if err == nil && f.check {
		err = broken(records)
	}
	return err
}

func readAll(names []string) ([]record, error) {
	var records []record
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		more, err := decode[record](name, string(text))
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
	}
	return records, nil
}

// ask asks everything, and returns also with an error what is known so far.
func ask(ctx context.Context, f flags, getenv func(string) string, stderr io.Writer) ([]record, error) {
	d, err := load()
	if err != nil {
		return nil, err
	}
	var out *os.File
	if f.out != "" {
		out, err = os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, fmt.Errorf("-out must be a new file: %w", err)
		}
		defer out.Close()
	}
	var records []record
	for _, v := range f.variants {
		err := askVariant(ctx, f, d, v, getenv, func(r record) error {
			records = append(records, r)
			for _, t := range r.Turns {
				fmt.Fprintln(stderr, line(r, t))
			}
			if out == nil {
				return nil
			}
			return json.NewEncoder(out).Encode(r)
		})
		if err != nil {
			return records, err
		}
	}
	return records, nil
}

// askVariant asks everything in the way of one variant.
func askVariant(ctx context.Context, f flags, d data, v variant, getenv func(string) string, done func(record) error) error {
	// A slow machine is no error, and no error may be hidden by another try.
	slow := openai.Timeouts{FirstByte: 10 * time.Minute, Idle: 10 * time.Minute, Attempt: 20 * time.Minute}
	model, err := openai.FromEnv(getenv, "", append([]openai.Option{openai.WithTimeouts(slow), openai.WithRetries(0)}, v.model...)...)
	if err != nil {
		return err
	}
	root, err := tree(d.roles, model, f.maxTokens, v)
	if err != nil {
		return fmt.Errorf("variant %s: %w", v.name, err)
	}
	r, err := start(root)
	if err != nil {
		return fmt.Errorf("variant %s: %w", v.name, err)
	}
	of1 := record{Model: model.Name(), Variant: v.name}
	for _, m := range of(f.half, f.n, d.messages, func(m message) half { return m.Half }) {
		rec := of1
		rec.ID, rec.Half = m.ID, m.Half
		t, err := say(ctx, r, m.ID, m.prompt)
		if err != nil {
			return err
		}
		rec.Turns = []turn{t}
		if err := done(rec); err != nil {
			return err
		}
	}
	for _, c := range of(f.half, f.conversations, d.conversations, func(c conversation) half { return c.Half }) {
		rec := of1
		rec.ID, rec.Half, rec.Talk = c.ID, c.Half, true
		for _, p := range c.Turns {
			t, err := say(ctx, r, c.ID, p)
			if err != nil {
				return err
			}
			rec.Turns = append(rec.Turns, t)
		}
		if err := done(rec); err != nil {
			return err
		}
	}
	return nil
}

// line is a turn for who waits.
func line(r record, t turn) string {
	mark := " "
	if !t.endRight() {
		mark = "✗"
	}
	text := fmt.Sprintf("%s %-10s %-15s %s → %s, answered by %s, %.1f s", mark, r.Variant, r.ID, t.Right, t.First, t.End, t.Seconds)
	if t.leaked() {
		text += ", a call was shown"
	}
	if t.Error != "" {
		text += ", " + t.Error + ": " + t.Message
	}
	return text
}

// broken says what no model may bring about, however it routes.
func broken(records []record) error {
	var found []error
	for _, r := range records {
		for _, t := range r.Turns {
			if t.Error != "" || t.leaked() || t.End == "" {
				found = append(found, errors.New(strings.TrimSpace(line(r, t))))
			}
		}
	}
	return errors.Join(found...)
}
