// Package eval measures how a tree of agents routes and answers. Cases contain the messages of users and the expected
// results. [Run] plays each case in a session of its own, once or several times, with one or several trees or models. A
// [Report] contains the share of cases with the expected results, its confidence interval, which agents were confused,
// and the cost.
//
//	cases:
//	  - say: I was charged twice          # a case of one turn
//	    path: support > billing
//	  - name: comes back
//	    turns:
//	      - say: My invoice is wrong
//	        path: support > billing
//	        tools: find_invoice
//	        says: [invoice, /refund(ed)?/]  # regardless of case
//	      - say: And the router blinks
//	        path: billing > … > tech|network
//
// [Test] makes a subtest of each case. The package also contains the judge, which is optional, and the formats of
// reports.
//
// The package changes no tree, and stores its sessions in memory.
package eval
