// Command firstword measures how long a user waits for the first word of an answer, in turns without a transfer and with
// one, on Arbor and on other frameworks.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/agentarbor/arbor/benchmarks"
)

func main() {
	firstToken := flag.Duration("first-token", 300*time.Millisecond, "how long the model takes to its first token")
	turns := flag.Int("turns", 20, "how many turns of each kind are measured")
	flag.Parse()
	all, err := benchmarks.FirstWords(context.Background(), *firstToken, *turns)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("framework | without a transfer, ms | 95 % | with a transfer, ms | 95 % | with / without")
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	for _, w := range all {
		fmt.Printf("%s | %.0f | %.0f | %.0f | %.0f | %.2f\n", w.Who, ms(w.Plain), ms(w.PlainMost), ms(w.Transfer), ms(w.TransferMost), ms(w.Transfer)/ms(w.Plain))
	}
}
