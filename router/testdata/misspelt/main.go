// Command misspelt is not compiled by a test: rules take handles, and one is misspelt.
package main

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/router"
)

func main() { _, _ = front(nil, nil) }

func front(billingAgent, returnsAgent agent.Agent) (*router.Router, error) {
	billing := router.Specialist(billingAgent)
	returns := router.Specialist(returnsAgent, router.OnError(billing))
	return router.New("front", router.Rules(
		router.When(router.Keyword("refund")).To(retuns),
		router.When(router.Sentiment("frustration").Above(0.7).OverTurns(2)).ToHuman("frustrated"),
	), router.Default("billing"))
}
