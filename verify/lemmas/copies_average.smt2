; The average of n >= 1 equal copies is the value itself. S(n): sum of n copies of t. By induction: S(n) = n * t.
;; step base
(declare-fun S (Int) Real)
(assert (= (S 0) 0.0))
;; goal
(assert (not (= (S 0) 0.0)))
;; step induction
(declare-const before Real)
(declare-const after Real)
(declare-const n Real)
(declare-const t Real)
(assert (= before (* n t)))
(assert (= after (+ before t)))
;; goal
(assert (not (= after (* (+ n 1.0) t))))
;; step average
(declare-const sum Real)
(declare-const n Real)
(declare-const t Real)
(declare-const average Real)
(assert (>= n 1.0))
(assert (= sum (* n t)))
(assert (= (* n average) sum))
;; goal
(assert (not (= average t)))
