package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// counts parses the flag -targets.
func counts(text string) (all []int, err error) {
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-targets needs numbers from 1 with commas between them, as 7,60, not %q", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// crowd returns the coordinator of the star with n specialists: those of the star, repeated with other names.
func crowd(n int) ([]role, error) {
	star, err := roles("star")
	if err != nil {
		return nil, err
	}
	all := star[:1:1]
	for i := range n {
		r := star[1+i%(len(star)-1)]
		if again := i / (len(star) - 1); again > 0 {
			r.Name += "_" + strconv.Itoa(again+1)
		}
		all = append(all, r)
	}
	return all, nil
}

// tokens prints the number of tokens of the first request of a turn, as the endpoint counts them.
func tokens(ctx context.Context, f flags, getenv func(string) string, stdout io.Writer) error {
	fmt.Fprintln(stdout, "| variant | targets | tokens of a request |\n|---|---|---|")
	for _, v := range f.variants {
		for _, n := range f.targets {
			agents, err := crowd(n)
			if err != nil {
				return err
			}
			model, err := connect(getenv, v)
			if err != nil {
				return err
			}
			root, err := grow(agents, model, 1, v)
			if err != nil {
				return fmt.Errorf("variant %s: %w", v.name, err)
			}
			r, err := runner.New(root, session.NewMemory())
			if err != nil {
				return err
			}
			used, err := firstRequest(r.Run(ctx, session.ID("s1"), llm.UserText("hi")))
			if err != nil {
				return fmt.Errorf("variant %s with %d targets: %w", v.name, n, err)
			}
			fmt.Fprintf(stdout, "| %s | %d | %d |\n", v.name, n, used)
		}
	}
	return nil
}

// firstRequest returns the tokens of the first request of a turn, and ends the turn after it.
func firstRequest(turn func(yield func(*event.Event, error) bool)) (int, error) {
	for e, err := range turn {
		if err != nil {
			return 0, err
		}
		var u *event.Usage
		switch d := e.Data.(type) {
		case *event.Usage:
			u = d
		case *event.Discard: // a call does not fit into an answer of one token
			u = d.Usage
		}
		if u != nil && u.InputTokens > 0 {
			return u.InputTokens, nil
		}
	}
	return 0, errors.New("the endpoint does not report the tokens that it used")
}
