// Command support is a support desk: an embedded tree of Markdown agents, and three tools on a database with the
// orders, charges and refunds of one customer.
//
//	go run ./examples/support run "I'm being charged twice for my subscription"
package main

import (
	"database/sql"
	"embed"
	"encoding/json"
	"fmt"
	"log"

	_ "modernc.org/sqlite"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/tools"
)

//go:embed support
var agents embed.FS

//go:embed shop.sql
var shop string // the tables, and the views that the tools read

type chargesIn struct {
	Product string `json:"product,omitempty" jsonschema:"enum=subscription,enum=router,enum=cable,description=Only charges for this product"`
}

type refundIn struct {
	ChargeID string `json:"charge_id" jsonschema:"description=The charge to pay back\\, such as ch_1001"`
}

func main() {
	db, err := sql.Open("sqlite", ":memory:")
	must(err)
	db.SetMaxOpenConns(1) // each connection would have its own database
	_, err = db.Exec(shop)
	must(err)

	charges, err := tools.Func("list_charges", "List the customer's charges.", func(ctx tools.Context, in chargesIn) (json.RawMessage, error) {
		return rows(db.QueryRowContext(ctx, "SELECT json_group_array(json(row)) FROM charge_rows WHERE ? IN ('', product)", in.Product))
	}, tools.Idempotent())
	must(err)
	orders, err := tools.Func("list_orders", "List the customer's orders.", func(ctx tools.Context, _ struct{}) (json.RawMessage, error) {
		return rows(db.QueryRowContext(ctx, "SELECT json_group_array(json(row)) FROM order_rows"))
	}, tools.Idempotent())
	must(err)
	refund, err := tools.Func("refund_charge", "Refund one charge in full.", func(ctx tools.Context, in refundIn) (string, error) {
		result, err := db.ExecContext(ctx, "INSERT OR IGNORE INTO refunds SELECT id, amount FROM charges WHERE id = ?", in.ChargeID)
		if err != nil {
			return "", err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return "", fmt.Errorf("there is no charge %s that is not refunded yet", in.ChargeID)
		}
		return "Charge " + in.ChargeID + " is refunded.", nil
	}, tools.NeedsApproval())
	must(err)
	cli.Main(cli.WithName("support"), cli.WithFiles(agents, "support"), cli.WithTools(charges, orders, refund))
}

func rows(result *sql.Row) (json.RawMessage, error) {
	var text string
	err := result.Scan(&text)
	return json.RawMessage(text), err
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
