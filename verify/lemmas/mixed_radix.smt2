; A dimension indexed by digits, i = q * s + r with 0 <= r < s: every index has digits, only one pair of them, and cutting the
; dimension at multiples of s cuts the outer digit. Proofs may therefore speak of digits in place of indices.
;; step digits of zero
(declare-const s Int)
(assert (>= s 1))
;; goal
(assert (not (and (= 0 (+ (* 0 s) 0)) (<= 0 0) (< 0 s))))
;; step digits of the next index
(declare-const i Int)
(declare-const q Int)
(declare-const r Int)
(declare-const s Int)
(declare-const q_s Int)
(assert (>= s 1))
(assert (and (<= 0 r) (< r s)))
(assert (= i (+ q_s r)))
;; goal
(assert (not (or (and (= (+ i 1) (+ q_s (+ r 1))) (< (+ r 1) s)) (= (+ i 1) (+ q_s s)))))
;; step one pair of digits
(declare-const s Int)
(declare-const difference Int)
(declare-const difference_s Int)
(declare-const r Int)
(declare-const r2 Int)
(assert (>= s 1))
(assert (and (<= 0 r) (< r s) (<= 0 r2) (< r2 s)))
(assert (=> (>= difference 1) (>= difference_s s)))
(assert (=> (<= difference (- 1)) (<= difference_s (- s))))
(assert (=> (= difference 0) (= difference_s 0)))
(assert (= difference_s (- r2 r)))
;; goal
(assert (not (and (= difference 0) (= r r2))))
;; step multiples are monotone
(declare-const s Int)
(declare-const n Int)
(declare-const n_s Int)
(assert (>= s 1))
(assert (>= n 1))
(assert (>= n_s s))
;; goal
(assert (not (>= (+ n_s s) s)))
;; step cut at a multiple
(declare-const q_s Int)
(declare-const lo_s Int)
(declare-const s Int)
(declare-const r Int)
(declare-const q Int)
(declare-const lo Int)
(assert (>= s 1))
(assert (and (<= 0 r) (< r s)))
(assert (=> (<= lo q) (<= lo_s q_s)))
(assert (=> (< q lo) (<= (+ q_s s) lo_s)))
;; goal
(assert (not (= (<= lo q) (<= lo_s (+ q_s r)))))
