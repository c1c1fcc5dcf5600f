; The maximum, and likewise the minimum, of n >= 1 equal copies is the value itself, for any idempotent operation.
;; step base
(declare-sort M 0)
(declare-fun R (Int) M)
(declare-const t M)
(assert (= (R 1) t))
;; goal
(assert (not (= (R 1) t)))
;; step induction
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun R (Int) M)
(declare-const t M)
(declare-const n Int)
(assert (>= n 1))
(assert (= (op t t) t))
(assert (= (R (+ n 1)) (op (R n) t)))
(assert (= (R n) t))
;; goal
(assert (not (= (R (+ n 1)) t)))
