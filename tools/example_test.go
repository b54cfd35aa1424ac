package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

type refundIn struct {
	Charge string `json:"charge" jsonschema:"description=The charge to pay back"`
	Amount int    `json:"amount" jsonschema:"minimum=1"`
}

type refundOut struct {
	Refunded int `json:"refunded"`
}

// A tool is a Go function. Its input type is the schema that a model sees, and
// whatever goes wrong is a result that a model can read.
func ExampleFunc() {
	refund, err := tools.Func("refund", "Refund one charge.", func(ctx tools.Context, in refundIn) (refundOut, error) {
		if in.Charge != "ch_1" {
			return refundOut{}, errors.New("there is no charge " + in.Charge)
		}
		return refundOut{in.Amount}, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{`{"charge":"ch_1","amount":19}`, `{"charge":"ch_2","amount":19}`, `{"charge":"ch_1","amount":0}`} {
		result, err := tools.Execute(context.Background(), refund, tools.CallInfo{}, json.RawMessage(input))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.IsError, string(result.Output))
	}
	// Output:
	// false {"refunded":19}
	// true "there is no charge ch_2"
	// true "the arguments do not fit the schema: /amount: minimum: got 0, want 1"
}

// SchemaOf shows what a model reads about a type.
func ExampleSchemaOf() {
	schema, err := tools.SchemaOf[refundIn]()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(schema))
	// Output:
	// {"properties":{"charge":{"type":"string","description":"The charge to pay back"},"amount":{"type":"integer","minimum":1}},"additionalProperties":false,"type":"object","required":["charge","amount"]}
}

// A tool can read and change the session's state. A change is stored with the
// call's result.
func ExampleContext() {
	type none struct{}
	count, err := tools.Func("count", "Counts its calls.", func(ctx tools.Context, _ none) (int, error) {
		calls, _, err := session.GetAs[int](ctx.Get, "calls") // 0 if nobody has set it
		if err != nil {
			return 0, err
		}
		ctx.Set("calls", calls+1)
		return calls + 1, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	state := func(string) (any, bool) { return 41, true }
	result, err := tools.Execute(context.Background(), count, tools.CallInfo{State: state}, json.RawMessage(`{}`))
	fmt.Println(string(result.Output), result.State, err)
	// Output:
	// 42 map[calls:42] <nil>
}
