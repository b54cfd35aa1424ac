// Command handover plays one conversation of seven agents three times against a real endpoint: with separate requests
// of each agent, with shared requests, and with ADK-Go. It reports how many prompt tokens the endpoint computed anew.
// Every third turn is a transfer. The texts of the agents are fixed, so that all conversations are the same: the
// endpoint reads each request and answers with one token, which is not used. The OPENAI_* variables name the model.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

func main() {
	agents := flag.String("agents", "benchmarks/routing/data/star/agents.jsonl", "file with the agents, the coordinator first")
	turns := flag.Int("turns", 20, "how many turns the conversation has")
	flag.Parse()
	model, err := openai.FromEnv(os.Getenv, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requests | turn without a transfer | first request after a transfer | after / without | cached from turn 5 on | first request after a transfer, ms")
	roles, err := read(*agents)
	if err != nil {
		log.Fatal(err)
	}
	for _, way := range []struct {
		name  string
		build func(*play) (func(said string) error, error)
	}{
		{"own", func(p *play) (func(string) error, error) { return p.arbor() }},
		{"shared", func(p *play) (func(string) error, error) { return p.arbor(runner.WithSharedRequests()) }},
		{"ADK-Go", (*play).adk},
	} {
		p := &play{model: model, roles: roles, turns: *turns}
		turn, err := way.build(p)
		if err == nil {
			err = p.run(turn)
		}
		if err != nil {
			log.Fatal(err)
		}
		p.report(way.name)
	}
}

// role is the role of an agent. Each agent has a tool that looks up its own records.
type role struct{ Name, Description, Instruction string }

var record = strings.Repeat("The record has a line. ", 5)

func (r role) tool() (name, description string) {
	return "look_up_" + r.Name, "Looks up a record of " + r.Name + "."
}

type lookup struct {
	ID int `json:"id"`
}

func read(file string) (roles []role, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		var r role
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, err
		}
		roles = append(roles, r)
	}
	return roles, nil
}

// play is one conversation. It is the model of all agents.
type play struct {
	model                 llm.Model
	roles                 []role
	turns, turn, step     int // step is the number of the request in the turn
	at                    int // the agent that answers
	moved                 bool
	plain, arrived, times []int // tokens computed anew in turns without a transfer, and in requests after one with their ms
	input, cached         int
}

func (p *play) Name() string { return p.model.Name() }

// Generate sends the request to the endpoint for one token, counts, and returns the next text or call of the
// conversation.
func (p *play) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		short, usage, began := *req, llm.Usage{}, time.Now()
		short.MaxTokens = 1
		for c, err := range p.model.Generate(ctx, &short) {
			if err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if c.Usage != nil {
				usage = *c.Usage
			}
		}
		p.count(usage, time.Since(began))
		p.step++
		switch {
		case p.turn%3 == 0 && !p.moved:
			p.moved, p.at = true, p.at%(len(p.roles)-1)+1 // from specialist to specialist
			yield(llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: agent.TransferTool, Arguments: fmt.Sprintf(`{"agent_name":%q,"reason":"It is their work"}`, p.roles[p.at].Name)}}, nil)
		case p.step == 1 && p.turn%2 == 0:
			name, _ := p.roles[p.at].tool()
			yield(llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: name, Arguments: fmt.Sprintf(`{"id":%d}`, p.turn)}}, nil)
		default:
			yield(llm.Chunk{Text: fmt.Sprintf("Here is what I found for you in turn %d: the record is complete, the amount is %d and nothing is open. Is there anything else?", p.turn, 19*p.turn)}, nil)
		}
		yield(llm.Chunk{Finish: llm.FinishStop, Usage: &usage}, nil)
	}
}

func (p *play) count(u llm.Usage, took time.Duration) {
	anew := u.InputTokens - u.CachedTokens
	switch {
	case p.turn%3 != 0 && p.turn > 1: // before the first turn nothing is cached
		if p.step == 0 {
			p.plain = append(p.plain, 0)
		}
		p.plain[len(p.plain)-1] += anew
	case p.moved && p.step == 1:
		p.arrived, p.times = append(p.arrived, anew), append(p.times, int(took.Milliseconds()))
	}
	if p.turn >= 5 {
		p.input, p.cached = p.input+u.InputTokens, p.cached+u.CachedTokens
	}
}

// run plays the conversation, with a turn for each message of the user.
func (p *play) run(turn func(said string) error) error {
	for p.turn = 1; p.turn <= p.turns; p.turn++ {
		p.step, p.moved = 0, false
		err := turn(fmt.Sprintf("This is my question number %d. I wrote to you about it last week, and nobody has answered yet. Please look at order %d again.", p.turn, 100+p.turn))
		if err != nil {
			return err
		}
	}
	return nil
}

// arbor returns a function that plays a turn with Arbor.
func (p *play) arbor(opts ...runner.Option) (func(said string) error, error) {
	var root agent.Agent
	var children []agent.Agent
	for i, role := range slices.Backward(p.roles) { // the coordinator is the first
		name, description := role.tool()
		tool, err := tools.Func(name, description, func(tools.Context, lookup) (string, error) { return record, nil })
		if err != nil {
			return nil, err
		}
		opts := []llmagent.Option{llmagent.WithDescription(role.Description), llmagent.WithTools(tool),
			llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true})}
		if i == 0 {
			opts = append(opts, llmagent.WithSubAgents(children...))
		}
		if root, err = llmagent.New(role.Name, role.Instruction, p, opts...); err != nil {
			return nil, err
		}
		children = append([]agent.Agent{root}, children...)
	}
	r, err := runner.New(root, session.NewMemory(), opts...)
	return func(said string) (err error) {
		for _, failed := range r.Run(context.Background(), session.ID("s"), llm.UserText(said)) {
			err = cmp.Or(err, failed)
		}
		return err
	}, err
}

func (p *play) report(name string) {
	plain, arrived := mean(p.plain), mean(p.arrived)
	fmt.Printf("%s | %.0f | %.0f | %.2f | %.1f %% | %.0f\n", name, plain, arrived, arrived/plain, 100*float64(p.cached)/float64(max(p.input, 1)), mean(p.times))
}

func mean(list []int) float64 {
	sum := 0
	for _, n := range list {
		sum += n
	}
	return float64(sum) / float64(max(len(list), 1))
}
