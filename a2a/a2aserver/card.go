package a2aserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/agent"
)

// cardConfig contains what the card says in addition to what the tree provides.
type cardConfig struct {
	base     string // public base URL without a trailing slash
	tenant   string // "" for the tree itself
	version  string // of the agent; "" is "0"
	provider *sdk.AgentProvider
	push     bool
	extended bool // whether authenticated callers can get an extended card
	// legacy is the URL of the JSON-RPC binding of protocol 0.3, or "" if the server does not serve it.
	legacy string
	// more are additional interfaces. An interface without a tenant gets the tenant of the card.
	more []sdk.AgentInterface
	// schemes are the security schemes, each of which suffices.
	schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme
	// inputModes and outputModes are media types. If empty, they default to text/plain.
	inputModes, outputModes []string
}

// buildCard describes a tree as an A2A 1.0 agent (section 4.4.1). The skills are the agents that a conversation can
// reach: the root, and every agent that transfers or routes lead to from there. An agent that only works inside a
// workflow is not a skill. The card contains the name, the description and the path of each of these agents, and
// nothing else about them. Equal trees give equal cards.
func buildCard(tree *agent.Tree, cfg cardConfig) (*sdk.AgentCard, error) {
	if cfg.base == "" {
		return nil, errors.New("a2aserver: the card needs the public URL of the server")
	}
	root := tree.Root().Agent
	card := &sdk.AgentCard{
		Name:        root.Name(),
		Description: cmp.Or(root.Description(), root.Name()),
		Version:     cmp.Or(cfg.version, "0"),
		Provider:    cfg.provider,
		Capabilities: sdk.AgentCapabilities{
			Streaming: true, PushNotifications: cfg.push, ExtendedAgentCard: cfg.extended,
			Extensions: []sdk.AgentExtension{{
				URI:         a2a.Extension,
				Description: "Metadata that says which agent of the tree speaks, and which agents a message went through.",
			}},
		},
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: cfg.base + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version, Tenant: cfg.tenant},
			{URL: cfg.base, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version, Tenant: cfg.tenant},
		},
		DefaultInputModes:  modes(cfg.inputModes),
		DefaultOutputModes: modes(cfg.outputModes),
	}
	for _, i := range cfg.more {
		i.Tenant = cmp.Or(i.Tenant, cfg.tenant)
		if port, alone := strings.CutPrefix(i.URL, ":"); alone {
			if base, err := url.Parse(cfg.base); err == nil {
				i.URL = net.JoinHostPort(base.Hostname(), port)
			}
		}
		card.SupportedInterfaces = append(card.SupportedInterfaces, &i)
	}
	if cfg.legacy != "" {
		// It is the last one, so that clients that support 1.0 use 1.0.
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&sdk.AgentInterface{URL: cfg.legacy, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "0.3", Tenant: cfg.tenant})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.schemes)) {
		if card.SecuritySchemes == nil {
			card.SecuritySchemes = make(sdk.NamedSecuritySchemes)
		}
		card.SecuritySchemes[name] = cfg.schemes[name]
		card.SecurityRequirements = append(card.SecurityRequirements, sdk.SecurityRequirements{name: {}})
	}
	for _, n := range reachableNodes(tree) {
		name := n.Agent.Name()
		card.Skills = append(card.Skills, sdk.AgentSkill{
			ID: name, Name: name, Description: cmp.Or(n.Agent.Description(), name), Tags: []string{n.Path},
		})
	}
	if _, err := cardjson.Tree(card); err != nil { // for example with a scheme of an unknown type
		return nil, fmt.Errorf("a2aserver: the card has no JSON form: %w", err)
	}
	return card, nil
}

func modes(m []string) []string {
	if len(m) == 0 {
		return []string{"text/plain"}
	}
	return slices.Clone(m)
}

// reachableNodes returns the nodes that a conversation can reach, in tree order.
func reachableNodes(tree *agent.Tree) []*agent.Node {
	seen := map[*agent.Node]bool{tree.Root(): true}
	for next := []*agent.Node{tree.Root()}; len(next) > 0; next = next[1:] {
		n := next[0]
		if n.Properties.Workflow {
			continue // a workflow calls its children and never transfers to them
		}
		ways := slices.Clone(n.Targets())
		for _, r := range n.Routes() {
			ways = append(ways, r.To)
		}
		for _, to := range ways {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	var nodes []*agent.Node
	for n := range tree.Walk() {
		if seen[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// renderCard returns the JSON of a card for its well-known path. If legacy is set, clients of protocol 0.3 can read it
// as well. If a signer is set, the card has its signature.
func renderCard(card *sdk.AgentCard, legacy func(*sdk.AgentCard) ([]byte, error), signer *cardsign.Signer) ([]byte, error) {
	write := cardjson.Marshal
	if legacy != nil {
		write = legacy
	}
	doc, err := write(card)
	if err == nil && signer != nil {
		doc, err = signer.SignJSON(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("a2aserver: the card cannot be written: %w", err)
	}
	return doc, nil
}
