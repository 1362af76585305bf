// Package leaf holds what store/mysql and store/postgres have in common: the rules
// of Leaf's table, leaf_alloc.
//
// One row is one tag. A reservation raises max_id by step, and the numbers below the
// new value are its own: [max_id − step, max_id). Leaf's servers do the same, so
// they may go on working on the same rows. Only biz_tag, max_id and step are touched;
// what else there is differs between installations.
package leaf
