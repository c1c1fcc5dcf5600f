; If one device of n keeps t and the others hold 0, the sum over all is t. A(c): sum over the first c devices. By induction: A(c) is t once
; the root is among them, 0 before.
;; step base
(declare-fun A (Int) Real)
(declare-const root Int)
(declare-const t Real)
(assert (<= 0 root))
(assert (= (A 0) 0.0))
;; goal
(assert (not (= (A 0) (ite (< root 0) t 0.0))))
;; step induction
(declare-fun A (Int) Real)
(declare-const root Int)
(declare-const t Real)
(declare-const c Int)
(assert (<= 0 root))
(assert (<= 0 c))
(assert (= (A (+ c 1)) (+ (A c) (ite (= c root) t 0.0))))
(assert (= (A c) (ite (< root c) t 0.0)))
;; goal
(assert (not (= (A (+ c 1)) (ite (< root (+ c 1)) t 0.0))))
