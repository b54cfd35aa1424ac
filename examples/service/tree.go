package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

type charge struct {
	ID string `json:"id"`
}

// desk returns the tree that is served. If a user asks for a refund, a function agent answers, and a person has to
// approve its refunds.
func desk(model llm.Model) (agent.Agent, error) {
	refund, err := tools.Func("refund", "Pays a charge back.", func(_ tools.Context, in charge) (string, error) {
		return in.ID + " is paid back", nil
	}, tools.NeedsApproval(tools.ByUser()))
	if err != nil {
		return nil, err
	}
	refunds, err := llmagent.Func("refunds", "Refunds, being charged twice, money back", func(s *llmagent.Step) error {
		id := chargeIn(s.Message())
		if id == "" {
			return s.Say("Which charge is it? Its id begins with ch_.")
		}
		var done string
		var refused *llmagent.CallError
		switch err := s.Call("refund", charge{id}, &done); {
		case errors.As(err, &refused):
			return s.Say("Nothing was paid back: " + refused.Message + ".")
		case err != nil:
			return err
		}
		return s.Say(fmt.Sprintf("Done: %s.", done))
	}, llmagent.WithTools(refund))
	if err != nil {
		return nil, err
	}
	return llmagent.New("support", "Route to the right specialist.", model, llmagent.WithSubAgents(refunds))
}

// chargeIn returns the id of the charge in a text, or "" if there is none.
func chargeIn(text string) string {
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "ch_") {
			return strings.Trim(word, ".,!?")
		}
	}
	return ""
}
